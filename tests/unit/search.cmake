if(TARGET deadheat_search)
  deadheat_test(search_test search_outputs_test.cpp search_interleaving_test.cpp search_schedules_test.cpp search_witness_test.cpp
    search_directed_test.cpp search_exploration_test.cpp search_operations_test.cpp search_streams_test.cpp search_litmus_test.cpp order_outcomes.cpp LIBS deadheat_search deadheat_order)
  deadheat_test(search_window_test search_window_test.cpp LIBS deadheat_search)
  deadheat_together(search_test search_directed_test.cpp search_exploration_test.cpp search_outputs_test.cpp
                    search_schedules_test.cpp search_witness_test.cpp)
  deadheat_together(search_test search_interleaving_test.cpp search_litmus_test.cpp)
endif()
