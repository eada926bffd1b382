"""Kernels as machine code: compiled by Numba once, kept as object files, loaded by llvmlite alone.

| module | content |
|---|---|
| `kernels` | which functions are kernels, which of them a kernel calls, and the stamp of their code |
| `files` | object files: where they are kept, how they are read and written, which are removed |
| `kinds` | signatures, kinds of arguments, errors |
| `loading` | the address of a kernel's machine code; calls from Python |
| `arrays` | calls from Python with arrays of NumPy |
| `words` | the state as a block of words |
| `announcing` | one sentence to the user where compiling takes long |
| `compiling` | a kernel and all kernels that it calls, as one object file (imports Numba) |
| `numba_types` | the state's tables and arrays as types of Numba (imports Numba) |
| `numba_arrays` | entries that take arrays of NumPy (imports Numba) |

Numba is imported where an object file is missing, and nowhere else.
"""
