#include "tools/tool.h"

#include <exception>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/registry.h"
#include "tools/command.h"
#include "tools/exit_status.h"
#include "tools/explain_command.h"
#include "tools/info_command.h"
#include "tools/perf_command.h"
#include "tools/run_command.h"
#include "tools/schedule_command.h"
#include "tools/usage_message.h"
#include "tools/verify_command.h"
#include "tools/version.h"

namespace tutti {
namespace {

constexpr char kDescription[] =
    R"(Tutti runs collectives (all-reduce, all-gather, broadcast, ...) among devices:
each rank brings an array, and each gets the result. This tool runs them on
your own arrays, measures them on your own machine beside what its memory
allows, and proves the algorithms behind them right.
)";

constexpr char kExamples[] = R"(Examples:
  tutti run all_reduce --input 'grads/rank*.npy' --output out/
  tutti perf all_reduce --devices 8 --max-bytes 16M --algorithm all --check
  tutti info
  tutti explain all_reduce --layout 4x2 --bytes 64M
  tutti verify RingReduce --max-ranks 16
  tutti schedule RingReduce --ranks 8 --svg ring.svg

`tutti COMMAND --help` explains a command. Exit status: 0 if all went well, 1 if
what was asked for failed, 2 for a wrong command line. Errors take one line on
standard error; results go to standard output.)";

constexpr int kColumnWidth = 26;

// The options of all commands, and where parsing puts them.
struct Tool {
  CLI::App app{kDescription, "tutti"};
  std::vector<Command> commands;

  Tool() {
    app.set_version_flag("--version", absl::StrCat("tutti ", kVersion),
                         "print the version and exit");
    app.set_help_flag("-h,--help", "print this help and exit");
    app.get_formatter()->column_width(kColumnWidth);
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.footer(kExamples);
    app.require_subcommand(0, 1);
    commands = {AddRunCommand(&app),    AddPerfCommand(&app),
                AddInfoCommand(&app),   AddExplainCommand(&app),
                AddVerifyCommand(&app), AddScheduleCommand(&app)};
    for (const Command& command : commands) command.app->group("Commands");
  }
};

absl::Status RunChosen(const Tool& tool, const Console& console) {
  for (const Command& command : tool.commands) {
    if (!command.app->parsed()) continue;
    const absl::Status registered = CollectiveRegistry::Global().status();
    if (!registered.ok() && !command.tolerates_registration_errors) {
      return registered;
    }
    return command.run(console);
  }
  return UsageError(
      "wanted a command: run, perf, info, explain, verify or schedule");
}

// "tutti", "tutti run": whose help to read.
std::string Program(const Tool& tool) {
  for (const Command& command : tool.commands) {
    if (command.app->parsed()) {
      return absl::StrCat("tutti ", command.app->get_name());
    }
  }
  return "tutti";
}

absl::Status ParseAndRun(Tool* tool, int argc, const char* const* argv,
                         const Console& console) {
  try {
    tool->app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    tool->app.exit(help_or_version, console.out, console.err);
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return UsageError(UsageMessage(error, tool->app));
  }
  return RunChosen(*tool, console);
}

absl::Status RunAndFlush(Tool* tool, int argc, const char* const* argv,
                         const Console& console) {
  absl::Status status = ParseAndRun(tool, argc, argv, console);
  if (ExitStatus(status) == 2) {
    return UsageError(
        absl::StrCat(status.message(), " (see `", Program(*tool), " --help`)"));
  }
  console.out.flush();
  if (status.ok() && !console.out) {
    return absl::DataLossError("standard output cannot be written");
  }
  return status;
}

}  // namespace

int RunTool(int argc, const char* const* argv, const Console& console) {
  absl::Status status;
  try {
    Tool tool;
    status = RunAndFlush(&tool, argc, argv, console);
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (!status.ok()) console.err << ErrorLine(status) << std::flush;
  return ExitStatus(status);
}

}  // namespace tutti
