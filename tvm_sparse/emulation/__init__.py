"""CUDA kernels on a CPU: their PTX is executed, checked and counted. Needs no GPU."""
