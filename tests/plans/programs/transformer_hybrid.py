"""A transformer on data × fsdp × tensor that computes its activations again in the backward pass."""

from tests.plans.programs import loop, transformer

RULES = {
    "embed": ("tensor", "fsdp"),
    "position": (None, "fsdp"),
    "qkv": (None, "fsdp", None, "tensor"),
    "out": (None, "tensor", None, "fsdp"),
    "up": (None, "fsdp", "tensor"),
    "down": (None, "tensor", "fsdp"),
}


def build(mesh):
    return transformer.build(mesh, RULES, ("data", "fsdp"), remat=True)


if __name__ == "__main__":
    loop.main(build)
