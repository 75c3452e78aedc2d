"""Results of `jaxtop probe`: the verdict on each device, the saved result, the comparison with it."""
