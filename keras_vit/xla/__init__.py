"""On TensorFlow: what XLA compiles, of a model on CPUs its loops over many numbers, elsewhere all of it."""
