"""A tiny model, and a short run of it on handwritten digits. Tests replace what they are about."""

from keras_vit.train.recipe import Average, Checkpoint, Data, Model, Optimizer, Recipe, Schedule, Variant

ROW = Variant("tiny", width=8, depth=2, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
RECIPE = Recipe(
    "tiny",
    Model(ROW, channels=1, dropout_rate=0.1),
    Data("digits", train_split="train[:5%]", test_split="test[:20%]", batch_size=16),  # 72 and 72 examples
    optimizer=Optimizer("adamw", learning_rate=1e-2, weight_decay=0.1),
    schedule=Schedule("cosine", warmup_steps=2),
    average=Average(0.9),
    checkpoint=Checkpoint(seconds=0),
)
