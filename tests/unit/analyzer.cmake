deadheat_test(analyzer_test analyzer_atomics_test.cpp analyzer_broken_messages_test.cpp analyzer_causality_test.cpp analyzer_chains_test.cpp analyzer_contradictions_test.cpp analyzer_copies_test.cpp analyzer_damage_test.cpp analyzer_dense_test.cpp analyzer_discards_test.cpp analyzer_epochs_test.cpp analyzer_gaps_test.cpp analyzer_exchanges_test.cpp analyzer_far_apart_test.cpp analyzer_faults_test.cpp analyzer_halves_test.cpp analyzer_heap_test.cpp analyzer_host_functions_test.cpp analyzer_in_place_test.cpp analyzer_lifetimes_test.cpp analyzer_long_runs_test.cpp analyzer_missing_barriers_test.cpp analyzer_missing_waits_test.cpp
              analyzer_blocks_test.cpp analyzer_operations_test.cpp analyzer_outcomes_test.cpp analyzer_packed_test.cpp analyzer_refills_test.cpp analyzer_pages_test.cpp analyzer_places_test.cpp analyzer_runs_test.cpp analyzer_scale_test.cpp analyzer_sparse_test.cpp analyzer_strong_lanes_test.cpp analyzer_waits_test.cpp analyzer_warp_copies_test.cpp
              analyzer_warpgroups_test.cpp analyzer_written_test.cpp
              LIBS deadheat_detect deadheat_trace)
deadheat_together(analyzer_test analyzer_atomics_test.cpp analyzer_far_apart_test.cpp analyzer_long_runs_test.cpp
                  analyzer_places_test.cpp analyzer_scale_test.cpp analyzer_warp_copies_test.cpp)
deadheat_together(analyzer_test analyzer_causality_test.cpp analyzer_chains_test.cpp analyzer_contradictions_test.cpp
                  analyzer_copies_test.cpp analyzer_damage_test.cpp analyzer_epochs_test.cpp
                  analyzer_exchanges_test.cpp analyzer_faults_test.cpp analyzer_waits_test.cpp)
deadheat_together(analyzer_test analyzer_dense_test.cpp analyzer_halves_test.cpp analyzer_pages_test.cpp)
deadheat_together(analyzer_test analyzer_broken_messages_test.cpp analyzer_discards_test.cpp analyzer_gaps_test.cpp analyzer_heap_test.cpp analyzer_host_functions_test.cpp analyzer_in_place_test.cpp
                  analyzer_lifetimes_test.cpp analyzer_operations_test.cpp analyzer_outcomes_test.cpp analyzer_refills_test.cpp analyzer_sparse_test.cpp
                  analyzer_warpgroups_test.cpp analyzer_written_test.cpp)
