"""draft"""

from keras_vit.train.recipe import Augment, Average, Data, Evaluate, Model, Optimizer, Recipe, Schedule, Variant

recipe = Recipe(
    "digits",
    Model(Variant("ViT_digits", width=96, depth=4, mlp_dim=192, num_heads=6, patch_size=2, image_size=8), channels=1),
    Data("digits", batch_size=128),
    Augment(shift=0.1, rotate=15, zoom=0.1),
    Optimizer("adamw", learning_rate=2e-3, weight_decay=0.05, clip_norm=1.0),
    Schedule("cosine", warmup_steps=50),
    average=Average(0.99),
    evaluate=Evaluate(every=10),
    epochs=100,
)
