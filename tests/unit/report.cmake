deadheat_test(report_test report_test.cpp LIBS deadheat_report)
