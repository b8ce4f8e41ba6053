"""Fine-tune a published model on one's own pictures.

Command:  keras-vit train recipes/image_folder.py --data-dir PICTURES --workdir runs/mine
          PICTURES/train/CLASS/*.jpg and PICTURES/test/CLASS/*.jpg, or just PICTURES/CLASS/*.jpg, from which a fixed
          fifth is held out, and seen as `keras-vit predict` and exports see pictures: whole, squeezed.
          Weights already on disk: --set model.weights=FILE.
Hardware: a GPU for comfort; 2 CPU cores train about 3 images a second of this model.
Time:     not run here with these weights, which need a download; tests run it with small ones.
Figure:   not run here; it depends on the pictures.
Source:   the official fine-tuning (arXiv 2010.11929, appendix B.1.1) with AdamW and a rate that falls from block to
          block, which forgives a learning rate that was not searched for (arXiv 2106.08254).
"""

from keras_vit.train.recipe import Augment, Data, Evaluate, Loss, Model, Optimizer, Recipe, Schedule

recipe = Recipe(
    "image_folder",
    Model("vit_small_patch16_224.augreg_in21k", image_size=224, drop_path_rate=0.1),
    Data("folder", batch_size=32),
    Augment(crop="inception", crop_area=0.3, flip=True),
    Optimizer("adamw", learning_rate=1e-3, weight_decay=0.05, clip_norm=1.0, layer_decay=0.75),
    Schedule("cosine", warmup_steps=50),
    Loss("softmax", label_smoothing=0.1),
    evaluate=Evaluate(every=1),
    epochs=10,
)
