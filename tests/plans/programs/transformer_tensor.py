"""A transformer on data × model: heads, hidden units and vocabulary are divided, as in Megatron."""

from tests.plans.programs import loop, transformer

RULES = {
    "embed": ("model",),
    "qkv": (None, None, None, "model"),
    "out": (None, "model"),
    "up": (None, None, "model"),
    "down": (None, "model"),
}


def build(mesh):
    return transformer.build(mesh, RULES, "data")


if __name__ == "__main__":
    loop.main(build)
