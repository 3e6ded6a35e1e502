"""Paged-attention kernels. Nothing is here yet."""
