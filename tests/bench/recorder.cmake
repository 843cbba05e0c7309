add_executable(recorder_bench ${CMAKE_CURRENT_SOURCE_DIR}/recorder_bench.cpp)
target_link_libraries(recorder_bench PRIVATE deadheat_trace benchmark::benchmark)
