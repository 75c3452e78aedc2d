"""The demo's training process: a small language model, trained for real over several processes."""

# The sizes that the mesh axis `model` can have: it divides the four heads of the model.
MODEL_SIZES = (1, 2, 4)
# The rows of a batch; more where the mesh axis `data` needs more.
ROWS = 8
