if(TARGET deadheat_device AND NVCC)
  set(bench_ptx ${CMAKE_CURRENT_BINARY_DIR}/kernels.ptx)
  add_custom_command(OUTPUT ${bench_ptx}
    COMMAND ${NVCC} -ptx -O2 -arch=compute_90 ${CMAKE_CURRENT_SOURCE_DIR}/kernels.cu -o ${bench_ptx}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels.cu VERBATIM)
  add_custom_target(bench_ptx_files DEPENDS ${bench_ptx})
  add_executable(engine_bench engine_bench.cpp kernels_host.cpp)
  set_source_files_properties(kernels_host.cpp PROPERTIES COMPILE_OPTIONS "-O2")
  add_dependencies(engine_bench bench_ptx_files)
  target_link_libraries(engine_bench PRIVATE deadheat_device deadheat_trace)
endif()
