deadheat_test(device_test
  device_memory.cpp device_operations.cpp device_machine.cpp device_queue.cpp device_record.cpp device_schedules.cpp
  device_mbarrier.cpp device_bulk.cpp device_tensors.cpp device_warp.cpp device_clusters.cpp device_deliveries.cpp
  device_departures.cpp device_spin.cpp device_standstill.cpp device_watch.cpp device_unwritten.cpp
  device_improving.cpp device_in_a_program.cpp
  LIBS deadheat_device)
deadheat_together(device_test device_bulk.cpp device_clusters.cpp device_deliveries.cpp device_departures.cpp device_machine.cpp
                  device_memory.cpp device_operations.cpp device_improving.cpp device_spin.cpp device_unwritten.cpp)
deadheat_together(device_test device_mbarrier.cpp device_queue.cpp device_schedules.cpp device_warp.cpp)
deadheat_together(device_test device_standstill.cpp device_watch.cpp)
deadheat_test(device_warpgroups_test device_warpgroups.cpp engine_warpgroup.cpp engine_matrix.cpp engine_snippets.cpp
              LIBS deadheat_device)
target_compile_definitions(device_warpgroups_test PRIVATE DEADHEAT_TEST_DATA="${CMAKE_CURRENT_LIST_DIR}/data")
deadheat_test(device_checked_test device_checked.cpp LIBS deadheat_device)
deadheat_test(device_spread_test device_spread.cpp LIBS deadheat_device)
deadheat_test(function_threads_test function_threads_test.cpp ${PROJECT_SOURCE_DIR}/replay/embedded/function_threads.cpp
              ${PROJECT_SOURCE_DIR}/replay/device/other_threads.cpp LIBS deadheat_headers Threads::Threads)
