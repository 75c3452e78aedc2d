"""NumPyro: stochastic variational inference, an update at a time."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from until import steps, told


def model(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1], 64]).to_event(2))
    head = numpyro.sample("head", dist.Normal(0, 1).expand([64]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=jax.numpy.tanh(x @ weights) @ head), obs=y)


def main():
    random = np.random.default_rng(0)
    x = random.normal(size=(2048, 128)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
    svi_state = svi.init(jax.random.key(0), x, y)
    update = jax.jit(svi.update)
    for step in steps():
        svi_state, loss = update(svi_state, x, y)
        told(step, loss)


main()
