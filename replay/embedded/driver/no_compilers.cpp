// libcuda.so.1 of builds in which no compiler is watched (CMakeLists.txt): the library needs a source file.
