# What instrumented kernels leave in their buffers, and the order that is made of it.
deadheat_test(device_log_test device_log_agents_test.cpp device_log_barrier_test.cpp device_log_heap_test.cpp device_log_mbarrier_test.cpp
              device_log_rounds_test.cpp device_log_strong_test.cpp device_log_true_order.cpp
              device_log_true_order_test.cpp
              LIBS deadheat_device_log)
deadheat_together(device_log_test device_log_agents_test.cpp device_log_barrier_test.cpp device_log_heap_test.cpp)
deadheat_together(device_log_test device_log_true_order.cpp device_log_true_order_test.cpp)
# What makes kernels leave it.
deadheat_test(ptx_instrument_test ptx_instrument_test.cpp LIBS deadheat_ptx)
deadheat_test(ptx_contractions_test ptx_contractions_test.cpp LIBS deadheat_ptx)
target_compile_definitions(ptx_contractions_test PRIVATE DEADHEAT_NVCC="$<$<BOOL:${NVCC}>:${NVCC}>")
# Which kernels are worth assembling: a part of the preload library, without CUDA.
deadheat_test(tracer_assembly_plan_test tracer_assembly_plan_test.cpp
              ${PROJECT_SOURCE_DIR}/tracer/cupti/assembly_plan.cpp LIBS deadheat_ptx)
# What opaque launches reach: a part of the preload library, without CUDA.
deadheat_test(tracer_reach_test tracer_reach_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/reach.cpp LIBS deadheat_headers)
# Which operations come behind host functions that are not over, likewise.
deadheat_test(tracer_open_functions_test tracer_open_functions_test.cpp
              ${PROJECT_SOURCE_DIR}/tracer/cupti/open_functions.cpp LIBS deadheat_trace)
deadheat_test(tracer_locked_memory_test tracer_locked_memory_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/locked_memory.cpp
              LIBS deadheat_headers)
deadheat_test(tracer_tensor_lists_test tracer_tensor_lists_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/tensor_lists.cpp
              LIBS deadheat_headers)
# Who waits for launches that have not ended: likewise.
deadheat_test(tracer_unfinished_test tracer_unfinished_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/unfinished.cpp
              LIBS deadheat_headers)
# Which values that streams wrote others have seen: likewise.
deadheat_test(tracer_stream_values_test tracer_stream_values_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/stream_values.cpp
              LIBS deadheat_headers)
# What the host writes into page-locked memory: likewise.
deadheat_test(tracer_kept_bytes_test tracer_kept_bytes_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/kept_bytes.cpp
              LIBS deadheat_headers)
deadheat_test(tracer_host_memory_test tracer_host_memory_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/host_memory.cpp
              LIBS deadheat_headers)
# Programs that a job runs without noticing, and the assembler that is one: likewise. (ThreadSanitizer knows nothing of
# processes that share memory.)
if(NOT DEADHEAT_SANITIZE MATCHES thread)
  deadheat_test(tracer_apart_test tracer_apart_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/apart.cpp
                LIBS deadheat_headers Threads::Threads)
  deadheat_test(tracer_ptxas_test tracer_ptxas_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/apart.cpp
                ${PROJECT_SOURCE_DIR}/tracer/cupti/ptxas.cpp
                LIBS deadheat_ptx Threads::Threads)
  target_compile_definitions(tracer_ptxas_test PRIVATE
                             DEADHEAT_FAKE_PTXAS="${PROJECT_SOURCE_DIR}/tests/tracer/fake_ptxas.py")
endif()
deadheat_test(tracer_nvcc_test tracer_nvcc_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/nvcc.cpp LIBS deadheat_headers)
deadheat_test(tracer_nvrtc_test tracer_nvrtc_test.cpp ${PROJECT_SOURCE_DIR}/tracer/compilers/nvrtc.cpp LIBS deadheat_ptx)
if(CUDA_INCLUDE)
  deadheat_test(tracer_jit_options_test tracer_jit_options_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/jit_options.cpp
                LIBS deadheat_headers)
  target_include_directories(tracer_jit_options_test SYSTEM PRIVATE ${CUDA_INCLUDE})
endif()
# The PTX of what nvcc made.
deadheat_test(tracer_images_test tracer_images_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/images.cpp
              ${PROJECT_SOURCE_DIR}/tracer/compilers/made_code.cpp ${PROJECT_SOURCE_DIR}/tracer/compilers/triton.cpp
              LIBS deadheat_ptx deadheat_trace ${CMAKE_DL_LIBS})
target_compile_definitions(tracer_images_test PRIVATE DEADHEAT_NVCC="$<$<BOOL:${NVCC}>:${NVCC}>")
set_target_properties(tracer_images_test PROPERTIES ENABLE_EXPORTS ON)
