// deadheat analyze: finds the races of a trace.
#include "tools/command.h"

namespace deadheat::tools {

namespace po = boost::program_options;

int run_analyze(const Arguments& arguments) {
  std::string trace;
  ReportOptions report_settings;
  AnalysisOptions analysis_settings;
  po::options_description description;
  description.add(analysis_options(analysis_settings)).add(report_options(report_settings));
  description.add_options()("trace", po::value(&trace), "trace directory");
  po::positional_options_description positional;
  positional.add("trace", 1);
  po::variables_map values;
  int status = 0;
  if (!parse(arguments,
             "usage: deadheat analyze [OPTIONS] TRACE\n\nFinds every pair of accesses that nothing orders.\n",
             description, positional, values, status)) {
    return status;
  }
  if (trace.empty()) return fail("no trace to analyze (deadheat analyze TRACE)");
  if (Expected<void> usable = check_report_options(report_settings); !usable) return fail(usable.error());
  if (Expected<void> usable = check_analysis_options(analysis_settings); !usable) return fail(usable.error());
  Expected<Analysis> analysis = analyze(trace, analysis_settings);
  if (!analysis) return fail(analysis.error());
  if (Expected<void> done = suppress(*analysis, report_settings); !done) return fail(done.error());
  report_settings.trace = trace;
  if (Expected<void> done = report(*analysis, report_settings, false, nullptr); !done) return fail(done.error());
  return finding_status(*analysis, report_settings);
}

} // namespace deadheat::tools
