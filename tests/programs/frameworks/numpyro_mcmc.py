"""NumPyro: NUTS in pieces, each of which goes on where the last one ended."""

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from until import steps, told


def model(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


def main():
    random = np.random.default_rng(0)
    x = random.normal(size=(1024, 32)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.float32)
    mcmc = MCMC(NUTS(model, max_tree_depth=5), num_warmup=50, num_samples=10, progress_bar=False)
    mcmc.warmup(jax.random.key(0), x, y)
    for step in steps():
        mcmc.run(mcmc.last_state.rng_key, x, y)
        mcmc.post_warmup_state = mcmc.last_state
        told(step, mcmc.get_samples()["weights"].mean())


main()
