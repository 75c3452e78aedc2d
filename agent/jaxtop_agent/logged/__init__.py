"""The scalars that a script logs for TensorBoard, Weights & Biases, MLflow or Trackio.

Of TensorBoard and W&B, the files of their writers are read: nothing of a writer is called or wrapped, so no
step takes longer. A value is known when the writer has written it: many do so every two minutes, or when
their buffer is full. Calls of MLflow and Trackio are noted by `hooks/trackers.py`.

- scalars.py: the last values of all files and calls; files.py, tensorboard.py, wandb.py: what was added to
  each file
- courses.py: all scalars, with those that the script reports to the agent, and what is sent of them
- course.py: one scalar: since when it is not finite, and whether it has risen
- curve.py: the curves of all scalars, for plots
"""
