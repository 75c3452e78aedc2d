"""Figures from the devices' drivers: NVIDIA's NVML, AMD's files in /sys, the metric service of TPUs."""
