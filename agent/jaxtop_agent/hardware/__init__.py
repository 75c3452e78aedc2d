"""Figures from the devices' drivers: NVIDIA's NVML, AMD's files in /sys, the metric service of TPUs.

What is where, in the order in which to read it:

- reader.py: the interface of a hardware reader
- worker.py: the thread that calls the drivers
- mapping.py: which GPU of the driver each JAX device is
- nvidia.py: NVIDIA GPUs, through NVML
- nvidia_gpu.py: the figures of one NVIDIA GPU or MIG instance
- gpm.py: the activity of GPUs since Hopper
- links.py: traffic of NVLink and PCIe
- xid.py: numbered errors of NVIDIA's driver, as events
- amd.py: AMD GPUs, from files in /sys
- tpu.py: TPUs, through the metric service of their runtime
- grpc.py: calls of a gRPC service on this machine
- distribution.py: distributions as the TPU runtime counts them
- check.py: what a driver offers here, for `jaxtop doctor`
- inventory.py: the GPUs of a vendor here, for `jaxtop place`
- libraries/: what NCCL, its plugins and the runtime of TPUs report
"""
