"""Questions to the libraries of the devices: NCCL, and the runtime of TPUs."""
