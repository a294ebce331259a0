"""The CUDA kernels' own sources, run on a CPU by an emulator of the device (emulator.h), with the signatures of the ops."""
