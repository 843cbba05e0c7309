deadheat_test(report_test progress_test.cpp report_test.cpp report_sarif_test.cpp report_suppress_test.cpp LIBS deadheat_report)
deadheat_together(report_test progress_test.cpp report_test.cpp report_sarif_test.cpp report_suppress_test.cpp)
deadheat_test(report_times_test report_times_test.cpp ${PROJECT_SOURCE_DIR}/tools/times.cpp
              LIBS deadheat_trace nlohmann_json::nlohmann_json)
