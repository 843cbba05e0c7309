# The embedded runtime: CUDA programs run with it preloaded. They are compiled here, one file a program or a family.
if(NOT TARGET cudart_embedded OR NOT NVCC)
  return()
endif()

set(embedded_programs)
# embedded_program(NAME SOURCE options…): an executable in this build directory.
function(embedded_program name source)
  set(binary ${CMAKE_CURRENT_BINARY_DIR}/embedded_run_${name})
  add_custom_command(
    OUTPUT ${binary}
    COMMAND ${NVCC} -std=c++17 -w -cudart shared -lineinfo ${ARGN} ${CMAKE_CURRENT_SOURCE_DIR}/embedded/${source}
            -o ${binary}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/embedded/${source}
    COMMENT "nvcc embedded_run_${name}"
    VERBATIM)
  set(embedded_programs ${embedded_programs} ${binary} PARENT_SCOPE)
endfunction()
set(ptx_only -gencode arch=compute_90,code=compute_90)
embedded_program(programs programs.cu ${ptx_only})
embedded_program(debug programs.cu ${ptx_only} -g)
embedded_program(per_thread programs.cu ${ptx_only} --default-stream per-thread)
embedded_program(probe probe.cu ${ptx_only})
embedded_program(older probe.cu -gencode arch=compute_75,code=compute_75)
embedded_program(entry_points entry_points.cu ${ptx_only})
embedded_program(fault fault.cu ${ptx_only})
embedded_program(machine_code fault.cu -gencode arch=compute_90,code=sm_90)
embedded_program(two_images fault.cu -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=[sm_90,compute_90]
                 -gencode arch=compute_100,code=compute_100)
embedded_program(run_path programs.cu ${ptx_only} -Xlinker -rpath=${CUDA_ROOT}/lib64 -Xlinker --disable-new-dtags)
embedded_program(conditions conditions.cu ${ptx_only})
embedded_program(host_only host_only.cpp)
# The driver API alone: C++, linked with CUDA's stub; the kernels' PTX lies beside it.
set(binary ${CMAKE_CURRENT_BINARY_DIR}/embedded_run_driver)
set(source ${CMAKE_CURRENT_SOURCE_DIR}/embedded/driver.cu)
add_custom_command(
  OUTPUT ${binary}
  COMMAND ${NVCC} -std=c++17 -w -lineinfo -arch=compute_90 -DKERNELS -ptx ${source} -o ${binary}.ptx
  COMMAND ${NVCC} -std=c++17 -w -x c++ -cudart none ${source} -L${CUDA_ROOT}/lib64/stubs -lcuda -o ${binary}
  DEPENDS ${source}
  COMMENT "nvcc embedded_run_driver"
  VERBATIM)
list(APPEND embedded_programs ${binary})
add_custom_target(embedded_programs DEPENDS ${embedded_programs})

deadheat_test(embedded_test embedded_exports.cpp embedded_options.cpp embedded_programs.cpp embedded_probe.cpp
              embedded_entry_points.cpp embedded_conditions.cpp embedded_driver.cpp
              LIBS deadheat_trace deadheat_ptx)
deadheat_together(embedded_test embedded_exports.cpp embedded_options.cpp embedded_programs.cpp embedded_probe.cpp
                  embedded_entry_points.cpp embedded_conditions.cpp embedded_driver.cpp)
add_dependencies(embedded_test embedded_programs cudart_embedded cuda_embedded)
target_compile_definitions(embedded_test PRIVATE
  EMBEDDED_LIBRARY="$<TARGET_FILE:cudart_embedded>"
  EMBEDDED_DRIVER="$<TARGET_FILE:cuda_embedded>"
  EMBEDDED_PROGRAMS="${CMAKE_CURRENT_BINARY_DIR}/embedded_run_"
  EMBEDDED_DATA="${CMAKE_CURRENT_SOURCE_DIR}/embedded/"
  CUDA_LIBRARIES="${CUDA_ROOT}/lib64/")
# The driver's functions for tensor maps, by themselves.
deadheat_test(embedded_tensor_maps_test embedded_tensor_maps.cpp ${PROJECT_SOURCE_DIR}/replay/embedded/tensor_map_api.cpp
              LIBS deadheat_ptx)
target_include_directories(embedded_tensor_maps_test SYSTEM PRIVATE ${CUDA_INCLUDE})
