"""Kernels as machine code: compiled by Numba once, kept as object files, loaded by llvmlite alone.

| module | content |
|---|---|
| `kernels` | which functions are kernels, which of them a kernel calls, and the stamp of their code |
| `files` | object files: where they are kept, how they are read and written, which are removed |
| `loading` | the address of a kernel's machine code; calls from Python |
| `compiling` | a kernel and all kernels that it calls, as one object file (imports Numba) |
| `numba_types` | the state's tables and arrays as types of Numba (imports Numba) |

Numba is imported where an object file is missing, and nowhere else.
"""
