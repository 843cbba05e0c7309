if(TARGET deadheat_engine)
  add_library(deadheat_engine_runner STATIC ${CMAKE_CURRENT_LIST_DIR}/engine_runner.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_snippets.cpp ${CMAKE_CURRENT_LIST_DIR}/engine_matrix.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_warpgroup.cpp)
  target_include_directories(deadheat_engine_runner PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  target_compile_definitions(deadheat_engine_runner PUBLIC DEADHEAT_TEST_DATA="${CMAKE_CURRENT_LIST_DIR}/data")
  target_link_libraries(deadheat_engine_runner PUBLIC deadheat_engine deadheat_ptx GTest::gtest)
  foreach(test stops calls memory snippets matrix)
    deadheat_test(engine_${test}_test ${CMAKE_CURRENT_LIST_DIR}/engine_${test}_test.cpp LIBS deadheat_engine_runner)
  endforeach()
  deadheat_test(engine_texture_test ${CMAKE_CURRENT_LIST_DIR}/engine_texture_test.cpp LIBS deadheat_engine)
  # Blocks at a time, as launches run that nobody watches.
  deadheat_test(engine_regions_test ${CMAKE_CURRENT_LIST_DIR}/engine_regions_test.cpp LIBS deadheat_engine_runner)
  deadheat_test(engine_precision_test ${CMAKE_CURRENT_LIST_DIR}/engine_precision_test.cpp
                ${CMAKE_CURRENT_LIST_DIR}/engine_shadow_test.cpp ${CMAKE_CURRENT_LIST_DIR}/engine_precision_matrix_test.cpp
                LIBS deadheat_engine_runner)
  deadheat_test(engine_load_test ${CMAKE_CURRENT_LIST_DIR}/engine_load_test.cpp LIBS deadheat_engine deadheat_ptx)
  deadheat_test(engine_cache_test ${CMAKE_CURRENT_LIST_DIR}/engine_cache_test.cpp LIBS deadheat_engine_runner)
  foreach(test calls memory snippets)
    add_test(NAME engine_${test}_regions COMMAND engine_${test}_test)
    set_tests_properties(engine_${test}_regions PROPERTIES ENVIRONMENT DEADHEAT_ENGINE_TEST=regions TIMEOUT 300)
  endforeach()
  # The code that large kernels get, for small ones: registers in frames, quick code generation.
  foreach(test stops calls memory snippets matrix precision)
    add_test(NAME engine_${test}_large COMMAND engine_${test}_test)
    set_tests_properties(engine_${test}_large PROPERTIES ENVIRONMENT DEADHEAT_ENGINE_TEST=both TIMEOUT 300)
  endforeach()
  # Threads that go on in other code than that in which they stopped.
  foreach(test stops calls memory matrix precision)
    add_test(NAME engine_${test}_improving COMMAND engine_${test}_test)
    set_tests_properties(engine_${test}_improving PROPERTIES ENVIRONMENT DEADHEAT_ENGINE_TEST=improving TIMEOUT 300)
  endforeach()
  find_package(rapidcheck QUIET)
  if(rapidcheck_FOUND)
    deadheat_test(engine_independence_test ${CMAKE_CURRENT_LIST_DIR}/engine_independence_test.cpp
                  LIBS deadheat_engine rapidcheck)
  endif()
  # Makes data/engine_gpu_results.txt; needs a GPU to run.
  add_executable(engine_reference EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/engine_reference.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_snippets.cpp)
  target_link_libraries(engine_reference PRIVATE deadheat_headers ${CMAKE_DL_LIBS})
  # Makes data/engine_gpu_matrices.txt.
  add_executable(engine_matrix_reference EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/engine_matrix_reference.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_matrix.cpp)
  target_link_libraries(engine_matrix_reference PRIVATE deadheat_headers ${CMAKE_DL_LIBS})
  # Makes data/engine_gpu_warpgroups.txt.
  add_executable(engine_warpgroup_reference EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/engine_warpgroup_reference.cpp
    ${CMAKE_CURRENT_LIST_DIR}/engine_warpgroup.cpp ${CMAKE_CURRENT_LIST_DIR}/engine_matrix.cpp)
  target_link_libraries(engine_warpgroup_reference PRIVATE deadheat_headers ${CMAKE_DL_LIBS})
endif()
