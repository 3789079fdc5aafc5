#include "tools/commands/tool.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "remote/transport_registry.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/base/version.h"
#include "tools/cluster/cluster_options.h"
#include "tools/cluster/command.h"
#include "tools/commands/algorithm_commands.h"
#include "tools/commands/certs_command.h"
#include "tools/commands/collective_commands.h"
#include "tools/commands/info_command.h"
#include "tools/commands/launch_command.h"
#include "tutti/implementation.h"

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
  tutti launch --tasks 4 --devices-per-task 2 -- perf all_reduce --check
  tutti info
  tutti explain all_reduce --layout 4x2 --bytes 64M
  tutti tune --output rules.json
  tutti verify RingReduce --max-ranks 16
  tutti schedule RingReduce --ranks 8 --svg ring.svg
  tutti simulate RingReduce --layout 1000x100 --bytes 64M

`run`, `perf`, `tune` and `explain` take --device gpu where Tutti was built with
CUDA. `tutti COMMAND --help` explains a command. Exit status: 0 if all went
well, 1 if the command failed, 2 for a wrong command line. Errors take one line
on standard error; results go to standard output.)";

constexpr int kColumnWidth = 26;

// Ends an error that names the help to read.
constexpr char kEndOfHint[] = " --help`)";

// Command line without the program's name.
using Words = std::vector<std::string>;

absl::Status RunAsTaskOfCluster(const Words& words,
                                const ClusterOptions& cluster,
                                const Console& console);
absl::Status CheckWordsOfTask(const Words& words, const Console& console,
                              bool* printed_help);

// Leaves one empty line between groups of options.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return absl::StrReplaceAll(
        CLI::Formatter::make_help(app, std::move(name), mode),
        {{"\n\n\n", "\n\n"}});
  }
};

std::shared_ptr<HelpFormatter> MakeFormatter() {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(kColumnWidth);
  formatter->label("SUBCOMMAND", "COMMAND");
  return formatter;
}

// Options of all commands, and the data that parsing fills.
struct Tool {
  CLI::App app{kDescription, "tutti"};
  std::vector<Command> commands;

  Tool() {
    // Refuses "--watch=false": SharedCommand() would not see the difference
    // between tasks.
    app.option_defaults()->disable_flag_override();
    app.set_version_flag("--version", absl::StrCat("tutti ", kVersion),
                         "print the version and exit");
    app.set_help_flag("-h,--help", "print this help and exit");
    app.formatter(MakeFormatter());
    app.footer(kExamples);
    app.require_subcommand(0, 1);
    commands = {AddRunCommand(&app),
                AddPerfCommand(&app),
                AddLaunchCommand(&app, CheckWordsOfTask),
                AddWorkerCommand(&app, RunAsTaskOfCluster),
                AddCertsCommand(&app),
                AddInfoCommand(&app),
                AddExplainCommand(&app),
                AddTuneCommand(&app),
                AddVerifyCommand(&app),
                AddScheduleCommand(&app),
                AddSimulateCommand(&app)};
    for (const Command& command : commands) {
      command.app->group("Commands");
      if (command.rest != nullptr) ShowRestInUsage(command.app);
    }
  }

  // Parsed command; null if none.
  const Command* Chosen() const {
    const auto chosen = absl::c_find_if(
        commands, [](const Command& command) { return command.app->parsed(); });
    return chosen == commands.end() ? nullptr : &*chosen;
  }

 private:
  static void ShowRestInUsage(CLI::App* command) {
    auto formatter = MakeFormatter();
    formatter->label("OPTIONS", "OPTIONS] -- COMMAND [ARGS...");
    command->formatter(std::move(formatter));
  }
};

// Moves the words after "--" unchanged to the command that runs another one:
// the parser would change words such as "[1,2]".
void TakeRest(const Tool& tool, Words* words) {
  const auto mark = absl::c_find(*words, "--");
  if (mark == words->end()) return;
  for (const Command& command : tool.commands) {
    if (command.rest == nullptr || command.app->get_name() != words->front()) {
      continue;
    }
    command.rest->assign(mark + 1, words->end());
    words->erase(mark, words->end());
    return;
  }
}

// Option that the word names, as "--layout" or "--layout=", if values follow
// it; else null. For an empty word: the option that takes words without a name.
const CLI::Option* OptionOf(const CLI::App& command, const std::string& word) {
  if (word.empty()) {
    const auto positional = command.get_options(
        [](const CLI::Option* option) { return option->get_positional(); });
    return positional.empty() ? nullptr : positional.front();
  }
  const CLI::Option* option =
      command.get_option_no_throw(word.substr(0, word.find('=')));
  const bool is_flag =
      option != nullptr && option->get_items_expected_max() == 0;
  return is_flag ? nullptr : option;
}

// Errors: an empty item in a list such as "1,,0", which the parser would skip.
absl::Status CheckItems(const CLI::Option& option, absl::string_view value) {
  if (option.get_delimiter() == '\0' || value.empty()) return absl::OkStatus();
  for (absl::string_view item : absl::StrSplit(value, option.get_delimiter())) {
    if (!item.empty()) continue;
    return UsageError(
        absl::StrCat(option.get_name(), ": \"", value, "\" has an empty item"));
  }
  return absl::OkStatus();
}

// Adds "./" to a file name such as "[1,2]", which the parser would split if the
// option takes many words.
std::string AsOneWord(const CLI::Option& option, const std::string& value) {
  const bool is_changed = option.get_allow_extra_args() &&
                          absl::StartsWith(value, "[") &&
                          absl::EndsWith(value, "]");
  return is_changed ? absl::StrCat("./", value) : value;
}

// Whether the parser takes the word for an option if no value must come.
bool IsOption(const CLI::App& command, const std::string& word) {
  return absl::StartsWith(word, "-") &&
         command.get_option_no_throw(word.substr(0, word.find('='))) != nullptr;
}

// Changes values so that the parser keeps them as they are, or refuses them.
absl::Status GuardValues(const CLI::App& command, Words* words) {
  const CLI::Option* option = nullptr;  // Takes the next values.
  bool needs_value = false;             // `option` has no value yet.
  for (auto word = words->begin() + 1; word != words->end(); ++word) {
    if (needs_value && IsOption(command, *word)) {
      return UsageError(absl::StrCat(option->get_name(),
                                     " needs a value, found \"", *word, "\""));
    }
    std::string name;  // Part before the value.
    if (absl::StartsWith(*word, "-") && !needs_value) {
      option = OptionOf(command, *word);
      const size_t end = word->find('=');
      const bool has_value = end < word->size() - 1;
      needs_value = option != nullptr && !has_value;
      if (!has_value) continue;
      name = word->substr(0, end + 1);
    }
    needs_value = false;
    const CLI::Option* taker = option;
    if (taker == nullptr && name.empty()) taker = OptionOf(command, "");
    if (taker == nullptr) continue;
    const std::string value = word->substr(name.size());
    RETURN_IF_ERROR(CheckItems(*taker, value));
    *word = absl::StrCat(name, AsOneWord(*taker, value));
    if (!taker->get_allow_extra_args()) option = nullptr;
  }
  return absl::OkStatus();
}

// Program whose help applies: "tutti" or "tutti run".
std::string Program(const Tool& tool) {
  const Command* chosen = tool.Chosen();
  return chosen == nullptr ? "tutti"
                           : absl::StrCat("tutti ", chosen->app->get_name());
}

// Adds the command that prints the help to an error in the command line.
absl::Status NameHelp(const absl::Status& status, const std::string& program) {
  if (!IsUsageError(status) || absl::EndsWith(status.message(), kEndOfHint)) {
    return status;
  }
  return UsageError(
      absl::StrCat(status.message(), " (see `", program, kEndOfHint));
}

absl::Status GuardValues(const Tool& tool, Words* words) {
  for (const Command& command : tool.commands) {
    if (words->empty() || command.app->get_name() != words->front()) continue;
    return NameHelp(GuardValues(*command.app, words),
                    absl::StrCat("tutti ", words->front()));
  }
  return absl::OkStatus();
}

std::string MessageOf(const CLI::ParseError& error, const Tool& tool) {
  std::string message = UsageMessage(error, tool.app);
  const Command* chosen = tool.Chosen();
  if (chosen != nullptr && chosen->rest != nullptr &&
      absl::EndsWith(message, "wanted options only")) {
    absl::StrAppend(&message, ", and a command after --");
  }
  return message;
}

// Text such as "run, perf, ... or simulate".
std::string NamesOf(const Tool& tool) {
  std::string names;
  for (const Command& command : tool.commands) {
    const bool is_last = &command == &tool.commands.back();
    absl::StrAppend(&names, names.empty() ? "" : (is_last ? " or " : ", "),
                    command.app->get_name());
  }
  return names;
}

absl::Status CheckChosen(const Tool& tool) {
  const Command* chosen = tool.Chosen();
  if (chosen == nullptr) {
    return UsageError(absl::StrCat("wanted a command: ", NamesOf(tool)));
  }
  if (chosen->rest == nullptr || !chosen->rest->empty()) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat("wanted a command after --: `", Program(tool),
                                 " ... -- perf all_reduce`"));
}

// Parses the words into the options that they name. Prints help instead if
// requested, and then sets `*printed_help`.
absl::Status Parse(Tool* tool, Words words, const Console& console,
                   bool* printed_help) {
  if (!words.empty()) TakeRest(*tool, &words);
  RETURN_IF_ERROR(GuardValues(*tool, &words));
  try {
    absl::c_reverse(words);  // CLI11 takes words in reverse order.
    tool->app.parse(std::move(words));
  } catch (const CLI::Success& help_or_version) {
    tool->app.exit(help_or_version, console.out, console.err);
    *printed_help = true;
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    return UsageError(MessageOf(error, *tool));
  }
  return CheckChosen(*tool);
}

absl::Status RunChosen(const Tool& tool, const Console& console) {
  absl::Status registered = CollectiveRegistry::Global().status();
  registered.Update(TransportRegistry::Global().status());
  const Command& command = *tool.Chosen();
  if (!registered.ok() && !command.tolerates_registration_errors) {
    return registered;
  }
  return command.run(console);
}

// Parses the words of a command that can be one task of a cluster.
absl::Status ParseTask(Tool* tool, const Words& words, const Console& console,
                       bool* printed_help) {
  const absl::Status status = Parse(tool, words, console, printed_help);
  if (!status.ok() || *printed_help) return NameHelp(status, Program(*tool));
  if (tool->Chosen()->cluster != nullptr) return absl::OkStatus();
  return UsageError(absl::StrCat(
      tool->Chosen()->app->get_name(),
      " takes no part in a cluster; wanted perf, run or tune after --"));
}

absl::Status CheckWordsOfTask(const Words& words, const Console& console,
                              bool* printed_help) {
  Tool tool;
  return ParseTask(&tool, words, console, printed_help);
}

absl::Status RunAsTaskOfCluster(const Words& words,
                                const ClusterOptions& cluster,
                                const Console& console) {
  Tool tool;
  bool printed_help = false;
  const absl::Status status = ParseTask(&tool, words, console, &printed_help);
  if (!status.ok() || printed_help) return status;
  *tool.Chosen()->cluster = cluster;
  return NameHelp(RunChosen(tool, console), Program(tool));
}

absl::Status RunAndFlush(Tool* tool, Words words, const Console& console) {
  bool printed_help = false;
  absl::Status status = Parse(tool, std::move(words), console, &printed_help);
  if (status.ok() && !printed_help) status = RunChosen(*tool, console);
  if (IsUsageError(status)) return NameHelp(status, Program(*tool));
  console.out.flush();
  if (status.ok() && !console.out) {
    return OutputLostError();
  }
  return status;
}

// Whether writes failed because the reader of the pipe has gone, as in
// `tutti info | head -1`: the reader has what it wants, so that is no error.
bool HasReaderGone(const Console& console) {
  pollfd out = {.fd = console.out_fd, .events = POLLOUT, .revents = 0};
  return poll(&out, 1, /*timeout=*/0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

int RunTool(int argc, const char* const* argv, const Console& console) {
  absl::Status status;
  try {
    Tool tool;
    status = RunAndFlush(&tool, {argv + 1, argv + std::max(argc, 1)}, console);
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
  }
  if (status == OutputLostError() && HasReaderGone(console)) {
    status = absl::OkStatus();
  }
  if (!status.ok()) console.err << ErrorLine(status) << std::flush;
  return ExitStatus(status);
}

}  // namespace tutti
