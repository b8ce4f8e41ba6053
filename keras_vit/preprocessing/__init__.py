"""Image files without Keras and without TensorFlow: their kinds, folders of them, their orientation, their pixels."""
