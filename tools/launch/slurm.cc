#include "tools/launch/slurm.h"

#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status_macros.h"
#include "tools/base/exit_status.h"

namespace tutti {
namespace {

constexpr size_t kMaxEntries = 65536;
constexpr int kMaxPort = 65535;

// Parses digits only; refuses a number large enough to overflow later
// arithmetic.
std::optional<int> ParseNumber(absl::string_view text) {
  int number = 0;
  if (text.size() > 9 || !absl::c_all_of(text, absl::ascii_isdigit) ||
      !absl::SimpleAtoi(text, &number)) {
    return std::nullopt;
  }
  return number;
}

// Splits at the commas outside brackets.
std::vector<absl::string_view> SplitOutsideBrackets(absl::string_view list) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') ++depth;
    if (list[i] == ']') --depth;
    if (list[i] != ',' || depth != 0) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(list.substr(begin));
  return parts;
}

// Appends the numbers of a range such as "01-03" or "7", padded to the width of
// the first one. Returns false if the text is no range, or too long a one.
bool AddRange(absl::string_view range, std::vector<std::string>* numbers) {
  const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
  const std::optional<int> first = ParseNumber(ends.front());
  const std::optional<int> last = ParseNumber(ends.back());
  if (ends.size() > 2 || !first.has_value() || !last.has_value() ||
      *first > *last ||
      static_cast<size_t>(*last - *first) >= kMaxEntries - numbers->size()) {
    return false;
  }
  const int width = static_cast<int>(ends.front().size());
  for (int number = *first; number <= *last; ++number) {
    numbers->push_back(absl::StrFormat("%0*d", width, number));
  }
  return true;
}

// Expands "node[01-03,7]" or "rack[0-1]node[0-3].local". Empty if the pattern
// is none, or stands for too many hosts.
std::vector<std::string> ExpandHosts(absl::string_view pattern) {
  if (pattern.empty()) return {};
  std::vector<std::string> names = {""};  // They grow from left to right.
  while (true) {
    const size_t open = pattern.find('[');
    const absl::string_view text = pattern.substr(0, open);
    if (absl::StrContains(text, ']')) return {};
    for (std::string& name : names) absl::StrAppend(&name, text);
    if (open == absl::string_view::npos) return names;
    const size_t close = pattern.find(']', open);
    if (close == absl::string_view::npos) return {};
    std::vector<std::string> endings;
    for (absl::string_view range :
         absl::StrSplit(pattern.substr(open + 1, close - open - 1), ',')) {
      if (!AddRange(range, &endings)) return {};
    }
    if (names.size() * endings.size() > kMaxEntries) return {};
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& ending : endings) longer.push_back(name + ending);
    }
    names = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
}

struct Variable {
  std::string name;
  std::string value;
};

// Prefers the variable of the step, which `srun` started, to that of the job.
absl::StatusOr<Variable> FindOneOf(const Variables& variables,
                                   const std::string& of_step,
                                   const std::string& of_job) {
  for (const std::string& name : {of_step, of_job}) {
    const std::optional<std::string> value = variables(name);
    if (value.has_value()) return Variable{name, *value};
  }
  return UsageError(
      absl::StrCat("wanted ", of_step, " or ", of_job,
                   " from Slurm, found neither: start the tasks with srun"));
}

// Refuses other orders of tasks, which Slurm supports; they need --cluster.
absl::Status CheckDistribution(const Variables& variables) {
  const std::optional<std::string> order = variables("SLURM_DISTRIBUTION");
  if (!order.has_value() || absl::StartsWith(*order, "block")) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(
      "SLURM_DISTRIBUTION is \"", *order,
      "\": wanted is srun --distribution=block, or an own --cluster"));
}

absl::Status Blame(const Variable& variable, absl::string_view message) {
  return UsageError(absl::StrCat(variable.name, ": ", message));
}

struct Nodes {
  std::vector<std::string> hosts;
  std::vector<int> tasks;  // By host.
  Variable tasks_variable;
};

absl::StatusOr<Nodes> ReadNodes(const Variables& variables) {
  ASSIGN_OR_RETURN(const auto list, FindOneOf(variables, "SLURM_STEP_NODELIST",
                                              "SLURM_JOB_NODELIST"));
  ASSIGN_OR_RETURN(const auto per_node,
                   FindOneOf(variables, "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_TASKS_PER_NODE"));
  const auto hosts = ExpandHostList(list.value);
  if (!hosts.ok()) return Blame(list, hosts.status().message());
  const auto tasks = ExpandTasksPerNode(per_node.value);
  if (!tasks.ok()) return Blame(per_node, tasks.status().message());
  if (hosts->size() == tasks->size()) return Nodes{*hosts, *tasks, per_node};
  return UsageError(absl::StrCat(
      list.name, ", \"", list.value, "\", has ", hosts->size(), " nodes, but ",
      per_node.name, ", \"", per_node.value, "\", has ", tasks->size()));
}

absl::Status CheckNumberOfTasks(const Variables& variables,
                                const Nodes& nodes) {
  const int64_t num_tasks =
      std::accumulate(nodes.tasks.begin(), nodes.tasks.end(), int64_t{0});
  const std::string makes = absl::StrCat("\"", nodes.tasks_variable.value,
                                         "\" makes ", num_tasks, " tasks");
  if (num_tasks > static_cast<int64_t>(kMaxEntries)) {
    return Blame(nodes.tasks_variable,
                 absl::StrCat(makes, ", more than ", kMaxEntries));
  }
  const std::optional<std::string> wanted = variables("SLURM_NTASKS");
  if (!wanted.has_value() || *wanted == absl::StrCat(num_tasks)) {
    return absl::OkStatus();
  }
  return Blame(nodes.tasks_variable,
               absl::StrCat(makes, ", but SLURM_NTASKS is ", *wanted,
                            ": start the tasks with srun"));
}

absl::Status CheckPorts(const Nodes& nodes, int base_port) {
  const int most_tasks = *absl::c_max_element(nodes.tasks);
  const int64_t last_port = int64_t{base_port} + most_tasks - 1;
  if (last_port <= kMaxPort) return absl::OkStatus();
  return UsageError(
      absl::StrCat("port ", base_port, " is too high: the ", most_tasks,
                   " tasks of a node would need those up to ", last_port,
                   ", and ", kMaxPort, " is the last there is"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandHostList(
    absl::string_view list) {
  std::vector<std::string> hosts;
  for (absl::string_view pattern : SplitOutsideBrackets(list)) {
    const std::vector<std::string> names = ExpandHosts(pattern);
    if (names.empty() || hosts.size() + names.size() > kMaxEntries) {
      return UsageError(absl::StrCat("\"", list, "\" is no list of up to ",
                                     kMaxEntries,
                                     " hosts such as node[01-03,7],gpu5"));
    }
    hosts.insert(hosts.end(), names.begin(), names.end());
  }
  return hosts;
}

absl::StatusOr<std::vector<int>> ExpandTasksPerNode(absl::string_view list) {
  std::vector<int> tasks;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
    int times = 1;
    const size_t open = part.find("(x");
    const std::optional<int> count = ParseNumber(part.substr(0, open));
    if (open != absl::string_view::npos) {
      absl::string_view text = part.substr(open + 2);
      const bool closed = absl::ConsumeSuffix(&text, ")");
      times = closed ? ParseNumber(text).value_or(0) : 0;
    }
    if (!count.has_value() || *count < 1 || times < 1 ||
        static_cast<size_t>(times) > kMaxEntries - tasks.size()) {
      return UsageError(absl::StrCat("\"", list, "\" is no list of up to ",
                                     kMaxEntries,
                                     " numbers of tasks such as 2(x3),1"));
    }
    tasks.insert(tasks.end(), times, *count);
  }
  return tasks;
}

absl::StatusOr<std::vector<std::string>> SlurmAddresses(
    const Variables& variables, int base_port) {
  ASSIGN_OR_RETURN(const auto nodes, ReadNodes(variables));
  for (const absl::Status& status :
       {CheckDistribution(variables), CheckNumberOfTasks(variables, nodes),
        CheckPorts(nodes, base_port)}) {
    if (!status.ok()) return status;
  }
  std::vector<std::string> addresses;
  for (size_t node = 0; node < nodes.hosts.size(); ++node) {
    for (int local = 0; local < nodes.tasks[node]; ++local) {
      addresses.push_back(
          absl::StrCat(nodes.hosts[node], ":", base_port + local));
    }
  }
  return addresses;
}

}  // namespace tutti
