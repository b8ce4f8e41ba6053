"""Fine-tune a published model on your own images.

Command:  keras-vit train recipes/image_folder.py --data-dir IMAGES --workdir runs/mine
          IMAGES/train/CLASS/*.jpg and IMAGES/test/CLASS/*.jpg, or only IMAGES/CLASS/*.jpg, of which a fixed fifth is
          the test split. Test images are squeezed to the model's size, as `keras-vit predict` and exports do.
          Weights on disk: --set model.weights=FILE.
Hardware: a GPU is recommended; 2 CPU cores train about 3 images per second of this model.
Time:     not run here with these weights, which need a download; tests run it with small ones.
Figure:   not run here; it depends on the images.
Source:   the official fine-tuning (arXiv 2010.11929, appendix B.1.1), but with AdamW and layer-wise learning rates,
          which need no search for the learning rate (arXiv 2106.08254).
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
