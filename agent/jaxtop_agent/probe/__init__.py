"""The processes of `jaxtop probe`: separate jobs on idle devices. No part of the agent imports them."""
