add_executable(analyzer_bench ${CMAKE_CURRENT_SOURCE_DIR}/analyzer_bench.cpp)
target_link_libraries(analyzer_bench PRIVATE deadheat_detect deadheat_trace)
target_link_options(analyzer_bench PRIVATE -static-libstdc++ -static-libgcc) # to be carried to other machines
# The same patterns as plain threads, watched by ThreadSanitizer. Its loops are to stay loops of single accesses.
add_executable(tsan_patterns ${CMAKE_CURRENT_SOURCE_DIR}/tsan_patterns.cpp)
target_compile_options(tsan_patterns PRIVATE -fsanitize=thread -fno-tree-vectorize -fno-tree-loop-distribute-patterns)
target_link_options(tsan_patterns PRIVATE -fsanitize=thread -static-libtsan -static-libstdc++ -static-libgcc)
target_link_libraries(tsan_patterns PRIVATE Threads::Threads)
add_dependencies(analyzer_bench tsan_patterns)
add_executable(operations_bench ${CMAKE_CURRENT_SOURCE_DIR}/operations_bench.cpp)
target_link_libraries(operations_bench PRIVATE deadheat_detect deadheat_trace)
target_link_options(operations_bench PRIVATE -static-libstdc++ -static-libgcc)
add_executable(order_bench ${CMAKE_CURRENT_SOURCE_DIR}/order_bench.cpp)
target_link_libraries(order_bench PRIVATE deadheat_order)
