add_executable(analyzer_bench ${CMAKE_CURRENT_SOURCE_DIR}/analyzer_bench.cpp)
target_link_libraries(analyzer_bench PRIVATE deadheat_detect deadheat_trace benchmark::benchmark)
