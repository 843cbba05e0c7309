# What instrumented kernels leave in their buffers, and the order that is made of it.
deadheat_test(device_log_test device_log_agents_test.cpp device_log_barrier_test.cpp device_log_mbarrier_test.cpp device_log_rounds_test.cpp
              LIBS deadheat_device_log)
# What opaque launches reach: of the preload library, without CUDA.
deadheat_test(tracer_reach_test tracer_reach_test.cpp ${PROJECT_SOURCE_DIR}/tracer/cupti/reach.cpp LIBS deadheat_headers)
