"""Keras 3 on JAX: `fit`, data parallel, with validation."""

import os
import time

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from until import FEW, FOLDER, note


class Steer(keras.callbacks.Callback):
    """Note how long steps take; end `fit` once the file `stop` exists."""

    def __init__(self):
        super().__init__()
        self.step, self.at, self.times = 0, time.monotonic(), []

    def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002 - Keras passes them
        self.step += 1
        now = time.monotonic()
        self.times.append(now - self.at)
        self.at = now
        if self.step % 10 == 0:
            note(self.times[-10:], self.step)

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            print(f"{logs['loss']:.5f} {logs['val_loss']:.5f}", flush=True)
        self.model.stop_training = os.path.exists(f"{FOLDER}/stop")


def main():
    keras.utils.set_random_seed(0)
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    random = np.random.default_rng(0)
    x = random.normal(size=(256 * FEW * 5, 64)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    layers = [keras.layers.Dense(512, activation="relu"), keras.layers.Dense(512, activation="relu")]
    model = keras.Sequential([keras.Input((64,)), *layers, keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
    held_out = (x[:2560], y[:2560])
    model.fit(x, y, batch_size=256, epochs=10_000, verbose=0, validation_data=held_out, callbacks=[Steer()])


main()
