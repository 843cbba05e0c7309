find_package(rapidcheck QUIET)
if(NOT rapidcheck_FOUND)
  deadheat_missing("RapidCheck" "librapidcheck-dev")
endif()
deadheat_test(order_test order_chain_test.cpp order_clock_test.cpp order_counted_test.cpp order_oracle.cpp
              order_oracle_test.cpp order_litmus_test.cpp order_litmus_scopes_test.cpp order_observation_test.cpp
              order_async_groups_test.cpp order_async_litmus_test.cpp order_deferred_test.cpp order_messages_litmus_test.cpp order_proxies_litmus_test.cpp order_unused_litmus_test.cpp
              order_operations_test.cpp order_outcomes.cpp
              order_histories_test.cpp order_history_table_test.cpp order_history_copies_test.cpp order_stream_test.cpp order_warps_test.cpp order_words_test.cpp slots_oracle.cpp
              slots_oracle_test.cpp
              LIBS deadheat_detect deadheat_trace rapidcheck)
deadheat_together(order_test order_async_groups_test.cpp order_async_litmus_test.cpp order_chain_test.cpp order_clock_test.cpp order_counted_test.cpp
                  order_history_copies_test.cpp order_history_table_test.cpp order_litmus_scopes_test.cpp
                  order_litmus_test.cpp order_observation_test.cpp)
deadheat_together(order_test order_messages_litmus_test.cpp order_operations_test.cpp order_oracle.cpp
                  order_proxies_litmus_test.cpp order_unused_litmus_test.cpp order_warps_test.cpp)
deadheat_together(order_test order_oracle_test.cpp order_stream_test.cpp)
deadheat_together(order_test order_outcomes.cpp order_histories_test.cpp)
