"""The scalars that a script logs for TensorBoard or Weights & Biases, read from the files of their writers.

Nothing of a writer is called or wrapped, so no step takes longer. A value is known when the writer has
written it: many do so every two minutes, or when their buffer is full.
"""
