"""PPO in the way of PureJaxRL: environments, policy and updates are scans within one launch."""

from typing import NamedTuple

import flax.linen as nn
import gymnax
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState
from until import steps, told

ENVS, LENGTH, UPDATES = 8, 32, 2


class ActorCritic(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x):
        hidden = nn.tanh(nn.Dense(256)(nn.tanh(nn.Dense(256)(x))))
        return jax.nn.log_softmax(nn.Dense(self.actions)(hidden)), nn.Dense(1)(hidden)[..., 0]


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    reward: jax.Array
    done: jax.Array
    log_prob: jax.Array
    value: jax.Array


def of(log_probs, actions):
    return jnp.take_along_axis(log_probs, actions[..., None], axis=-1)[..., 0]


def make(env, params):
    network = ActorCritic(env.action_space(params).n)

    def env_step(carry, _):
        state, env_state, obs, key = carry
        key, act, move = jax.random.split(key, 3)
        policy, value = network.apply(state.params, obs)
        action = jax.random.categorical(act, policy)
        moves = jax.random.split(move, ENVS)
        new, env_state, reward, *ended, _info = jax.vmap(env.step, (0, 0, 0, None))(
            moves, env_state, action, params
        )
        done = jnp.any(jnp.stack(ended), axis=0)
        seen = Transition(obs, action, reward, done, of(policy, action), value)
        return (state, env_state, new, key), seen

    def loss_fn(weights, seen, targets):
        policy, value = network.apply(weights, seen.obs)
        gain = targets - seen.value
        entropy = -(jnp.exp(policy) * policy).sum(-1).mean()
        ratio = jnp.exp(of(policy, seen.action) - seen.log_prob)
        actor = -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain).mean()
        return actor + 0.5 * jnp.square(value - targets).mean() - 0.01 * entropy

    def update_step(carry, _):
        carry, seen = jax.lax.scan(env_step, carry, None, LENGTH)
        state, env_state, obs, key = carry
        _, last = network.apply(state.params, obs)

        def back(after, each):
            after = each.reward + 0.99 * after * (1 - each.done)
            return after, after

        _, targets = jax.lax.scan(back, last, seen, reverse=True)

        def epoch(state, _):
            loss, grads = jax.value_and_grad(loss_fn)(state.params, seen, targets)
            return state.apply_gradients(grads=grads), loss

        state, losses = jax.lax.scan(epoch, state, None, 4)
        return (state, env_state, obs, key), (losses.mean(), seen.reward.sum())

    def start(key):
        key, first, resets = jax.random.split(key, 3)
        obs, env_state = jax.vmap(env.reset, (0, None))(jax.random.split(resets, ENVS), params)
        optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))
        weights = network.init(first, obs[0])
        state = TrainState.create(apply_fn=network.apply, params=weights, tx=optimizer)
        return state, env_state, obs, key

    @jax.jit
    def train(runner_state):
        return jax.lax.scan(update_step, runner_state, None, UPDATES)

    return start, train


def main():
    start, train = make(*gymnax.make("CartPole-v1"))
    runner_state = jax.jit(start)(jax.random.key(0))
    for step in steps():
        runner_state, (losses, _rewards) = train(runner_state)
        told(step, losses[-1])


main()
