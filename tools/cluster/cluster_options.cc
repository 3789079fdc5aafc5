#include "tools/cluster/cluster_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "framework/base/status_macros.h"
#include "tools/base/command_line.h"
#include "tools/base/exit_status.h"
#include "tools/cluster/cluster_file.h"
#include "tools/launch/slurm.h"
#include "tutti/collective.h"

namespace tutti {
namespace {

constexpr int kDefaultBasePort = 7000;
constexpr char kAllAddresses[] = "[::]";  // IPv6 and IPv4.

// Variables that mpirun sets in the processes that it starts.
constexpr char kMpiSize[] = "OMPI_COMM_WORLD_SIZE";
constexpr char kMpiRank[] = "OMPI_COMM_WORLD_RANK";

// Variables of Hydra, the mpirun of MPICH and similar MPIs; Slurm sets the
// second one too.
constexpr char kHydraMark[] = "MPI_LOCALNRANKS";
constexpr char kHydraSize[] = "PMI_SIZE";

struct Setting {
  std::string value;
  std::string where;  // "--task", "cluster.json: task", "TUTTI_TASK".
};

absl::Status Blame(const Setting& setting, absl::string_view message) {
  return UsageError(absl::StrCat(setting.where, ": ", message));
}

// Settings from all sources except Slurm.
class Settings {
 public:
  static absl::StatusOr<Settings> Create(const ClusterWords& flags,
                                         const Variables& variables) {
    Settings settings(flags, variables);
    const std::optional<Setting> path = settings.Find("cluster-file");
    if (!path.has_value()) return settings;
    ASSIGN_OR_RETURN(settings.file_, ReadClusterFile(path->value));
    settings.path_ = path->value;
    return settings;
  }

  std::optional<Setting> Find(const std::string& name) const {
    const auto flag = flags_.find(name);
    if (flag != flags_.end()) return Setting{flag->second, "--" + name};
    const std::string key = absl::StrReplaceAll(name, {{"-", "_"}});
    const auto in_file = file_.find(name);
    if (in_file != file_.end()) {
      const std::string key_in_file = name == "cluster" ? "tasks" : key;
      return Setting{in_file->second, absl::StrCat(path_, ": ", key_in_file)};
    }
    return FindVariable("TUTTI_" + absl::AsciiStrToUpper(key));
  }

  std::optional<Setting> FindVariable(const std::string& name) const {
    std::optional<std::string> value = variables_(name);
    if (!value.has_value()) return std::nullopt;
    return Setting{*std::move(value), name};
  }

  const Variables& variables() const { return variables_; }

 private:
  Settings(const ClusterWords& flags, Variables variables)
      : flags_(flags), variables_(std::move(variables)) {}

  ClusterWords flags_;
  ClusterWords file_;
  std::string path_;
  Variables variables_;
};

absl::StatusOr<int> NumberOf(const Setting& setting, int min, int max) {
  std::string text = setting.value;
  const std::string error = WholeNumber(min, max)(text);
  if (!error.empty()) return Blame(setting, error);
  int number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

absl::StatusOr<int> NumberOr(const Settings& settings, const std::string& name,
                             int otherwise, int min, int max) {
  const std::optional<Setting> setting = settings.Find(name);
  if (!setting.has_value()) return otherwise;
  return NumberOf(*setting, min, max);
}

absl::StatusOr<bool> Flag(const Settings& settings, const std::string& name) {
  const std::optional<Setting> setting = settings.Find(name);
  if (!setting.has_value()) return false;
  if (setting->value == "true" || setting->value == "1") return true;
  if (setting->value == "false" || setting->value == "0") return false;
  return Blame(*setting, absl::StrCat("\"", setting->value,
                                      "\" is neither true nor false"));
}

// Position of the last colon of "host:port" or "[::1]:7000"; npos for "host" or
// "[::1]".
size_t ColonOfPort(absl::string_view address) {
  if (absl::EndsWith(address, "]")) return absl::string_view::npos;
  return address.rfind(':');
}

// Whether `host` is a name, an IPv4 address, or an IPv6 address in brackets.
bool IsHost(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]")) {
    in6_addr address;
    return inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
  }
  return !host.empty() && absl::c_all_of(host, [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

absl::Status CheckHosts(const Setting& setting, const ClusterSpec& cluster) {
  for (const std::string& address : cluster.addresses) {
    const absl::string_view host =
        absl::string_view(address).substr(0, ColonOfPort(address));
    if (IsHost(host)) continue;
    return Blame(setting,
                 absl::StrCat("\"", host,
                              "\" is no host: wanted is a name, an "
                              "IPv4 address, or an IPv6 address in brackets"));
  }
  return absl::OkStatus();
}

// Checks everything except the number of this task.
absl::Status CheckCluster(const Setting& setting, ClusterSpec cluster) {
  cluster.this_task = 0;
  const absl::Status status = Validate(cluster);
  if (!status.ok()) return Blame(setting, status.message());
  return CheckHosts(setting, cluster);
}

absl::StatusOr<std::vector<std::string>> AddressesOf(const Settings& settings,
                                                     const Setting& cluster) {
  std::vector<std::string> addresses;
  for (absl::string_view address : absl::StrSplit(cluster.value, ',')) {
    addresses.emplace_back(absl::StripAsciiWhitespace(address));
  }
  const std::optional<Setting> port = settings.Find("port");
  if (!port.has_value()) return addresses;
  return Blame(*port, absl::StrCat("does not go with ", cluster.where,
                                   ", whose addresses have ports"));
}

// Addresses of Slurm's tasks.
absl::StatusOr<std::vector<std::string>> FindSlurmAddresses(
    const Settings& settings) {
  if (!settings.FindVariable("SLURM_PROCID").has_value()) {
    return UsageError(
        "wanted to know who takes part: --cluster host1:7000,host2:7000, "
        "--cluster-file FILE, TUTTI_CLUSTER, or to be started by mpirun or by "
        "Slurm's srun");
  }
  ASSIGN_OR_RETURN(const auto port, NumberOr(settings, "port", kDefaultBasePort,
                                             /*min=*/1, /*max=*/65535));
  return SlurmAddresses(settings.variables(), port);
}

// Nullopt if mpirun has not started this process, or if a cluster is given.
absl::StatusOr<std::optional<ClusterSpec>> FindMpiCluster(
    const Settings& settings) {
  const std::optional<Setting> size = settings.FindVariable(kMpiSize);
  const std::optional<Setting> rank = settings.FindVariable(kMpiRank);
  if (!size.has_value() || settings.Find("cluster").has_value()) {
    return std::nullopt;
  }
  if (!rank.has_value()) {
    return UsageError(absl::StrCat(kMpiSize, " is set, but not ", kMpiRank));
  }
  for (const char* name : {"transport", "task", "bind", "port", "tls-cert",
                           "tls-key", "tls-ca", "insecure"}) {
    const std::optional<Setting> other = settings.Find(name);
    if (!other.has_value()) continue;
    return Blame(*other,
                 "does not go with mpirun, whose processes talk through "
                 "MPI, unless --cluster is given");
  }
  ASSIGN_OR_RETURN(const auto num_tasks, NumberOf(*size, 1, kMaxGroupSize));
  ASSIGN_OR_RETURN(const auto task, NumberOf(*rank, 0, num_tasks - 1));
  ClusterSpec cluster = {.this_task = task};
  for (int i = 0; i < num_tasks; ++i) {
    cluster.addresses.push_back(absl::StrCat("mpi:", i + 1));
  }
  return cluster;
}

absl::StatusOr<int> FindTask(const Settings& settings, ClusterSpec cluster) {
  std::optional<Setting> setting = settings.Find("task");
  if (!setting.has_value()) setting = settings.FindVariable("SLURM_PROCID");
  if (!setting.has_value() && cluster.num_tasks() == 1) return 0;
  if (!setting.has_value()) {
    return UsageError(absl::StrCat(
        "wanted to know which of the ", cluster.num_tasks(),
        " tasks this is: --task, TUTTI_TASK, or to be started by Slurm's "
        "srun"));
  }
  ASSIGN_OR_RETURN(const auto task, NumberOf(*setting, 0, kMaxGroupSize - 1));
  cluster.this_task = task;
  const absl::Status status = Validate(cluster);
  if (!status.ok()) return Blame(*setting, status.message());
  return task;
}

absl::StatusOr<ClusterSpec> FindCluster(const Settings& settings) {
  const std::optional<Setting> given = settings.Find("cluster");
  ClusterSpec cluster;
  ASSIGN_OR_RETURN(cluster.addresses, given.has_value()
                                          ? AddressesOf(settings, *given)
                                          : FindSlurmAddresses(settings));
  RETURN_IF_ERROR(
      CheckCluster(given.value_or(Setting{"", "Slurm's variables"}), cluster));
  if (const auto job = settings.Find("job"); job.has_value()) {
    cluster.job = job->value;
    RETURN_IF_ERROR(CheckCluster(*job, cluster));
  }
  ASSIGN_OR_RETURN(cluster.this_task, FindTask(settings, cluster));
  return cluster;
}

// "host:port" of this task, changed by --bind.
absl::StatusOr<std::string> FindListenAddress(const Settings& settings,
                                              const ClusterSpec& cluster) {
  const std::string& own = cluster.addresses[cluster.this_task];
  const size_t colon = ColonOfPort(own);
  const std::string own_port = own.substr(colon);
  const std::optional<Setting> bind = settings.Find("bind");
  if (!bind.has_value()) {
    return IsLoopback(own.substr(0, colon)) ? own : kAllAddresses + own_port;
  }
  if (IsHost(bind->value)) return bind->value + own_port;
  return Blame(*bind, absl::StrCat("\"", bind->value,
                                   "\" is no address such as 10.0.0.1 or "
                                   "[::]; the port is that of the task"));
}

absl::StatusOr<absl::Duration> FindStartTimeout(const Settings& settings,
                                                absl::Duration otherwise) {
  const std::optional<Setting> setting = settings.Find("start-timeout");
  if (!setting.has_value()) return otherwise;
  std::string text = setting->value;
  const std::string error = PositiveSeconds()(text);
  if (!error.empty()) return Blame(*setting, error);
  double seconds = 0;
  return absl::SimpleAtod(text, &seconds) ? absl::Seconds(seconds) : otherwise;
}

absl::StatusOr<bool> FindDetection(const Settings& settings) {
  const std::optional<Setting> setting = settings.Find("detect");
  if (!setting.has_value() || setting->value == "default") return false;
  if (setting->value == "fast") return true;
  return Blame(*setting, absl::StrCat("\"", setting->value,
                                      "\" is neither default nor fast"));
}

// Requires all three files or none.
absl::StatusOr<TlsOptions> FindTls(const Settings& settings, int task) {
  TlsOptions files;
  std::optional<Setting> given;
  std::vector<std::string> missing;
  for (auto [name, path] :
       {std::pair("tls-cert", &files.certificate),
        std::pair("tls-key", &files.key), std::pair("tls-ca", &files.ca)}) {
    if (const auto setting = settings.Find(name)) {
      *path =
          absl::StrReplaceAll(setting->value, {{"{task}", absl::StrCat(task)}});
      given = setting;
    } else {
      missing.push_back(absl::StrCat("--", name));
    }
  }
  if (!given.has_value() || missing.empty()) return files;
  return Blame(*given, absl::StrCat("needs ", absl::StrJoin(missing, " and "),
                                    " as well"));
}

absl::StatusOr<std::vector<int>> FindListeners(const Settings& settings) {
  const std::optional<Setting> setting =
      settings.FindVariable(kListenersVariable);
  std::vector<int> listeners;
  if (!setting.has_value() || setting->value.empty()) return listeners;
  for (absl::string_view word : absl::StrSplit(setting->value, ',')) {
    int listener = 0;
    if (!absl::SimpleAtoi(word, &listener) || listener < 0) {
      return Blame(*setting, absl::StrCat("\"", word, "\" is no descriptor"));
    }
    listeners.push_back(listener);
  }
  return listeners;
}

// Data that others could read; empty if none leaves the machine.
std::string Exposed(const ClusterOptions& options) {
  const auto is_loopback = [](absl::string_view address) {
    return IsLoopback(address.substr(0, ColonOfPort(address)));
  };
  const ClusterSpec& cluster = options.cluster;
  for (int task = 0; task < cluster.num_tasks(); ++task) {
    if (is_loopback(cluster.addresses[task])) continue;
    return absl::StrCat("the address of task ", task, ", ",
                        cluster.addresses[task]);
  }
  if (is_loopback(options.listen_address)) return "";
  return absl::StrCat("the address to listen at, ", options.listen_address);
}

absl::Status CheckSecurity(const ClusterOptions& options) {
  if (options.tls.enabled() && options.insecure) {
    return UsageError("--insecure does not go with --tls-cert: give one");
  }
  const std::string exposed = Exposed(options);
  if (exposed.empty() || options.tls.enabled() || options.insecure) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(
      exposed,
      ", can be reached from other machines: wanted --tls-cert, "
      "--tls-key and --tls-ca (`tutti certs` makes some), or, where everybody "
      "on the network may read and change all data, --insecure"));
}

// Finds the members, their addresses, and the protection of their messages.
absl::Status FindNetwork(const Settings& settings, ClusterOptions* options) {
  ASSIGN_OR_RETURN(options->cluster, FindCluster(settings));
  ASSIGN_OR_RETURN(options->listen_address,
                   FindListenAddress(settings, options->cluster));
  ASSIGN_OR_RETURN(options->listeners, FindListeners(settings));
  ASSIGN_OR_RETURN(options->tls, FindTls(settings, options->cluster.this_task));
  ASSIGN_OR_RETURN(options->insecure, Flag(settings, "insecure"));
  options->token = settings.variables()("TUTTI_TOKEN").value_or("");
  return CheckSecurity(*options);
}

}  // namespace

absl::StatusOr<ClusterOptions> ResolveClusterOptions(
    const ClusterWords& flags, const Variables& variables) {
  ASSIGN_OR_RETURN(const auto settings, Settings::Create(flags, variables));
  ASSIGN_OR_RETURN(auto mpi_cluster, FindMpiCluster(settings));
  ClusterOptions options;
  if (const auto transport = settings.Find("transport")) {
    options.transport = transport->value;
  }
  if (mpi_cluster.has_value()) {
    options.transport = kMpiTransport;
    options.cluster = *std::move(mpi_cluster);
  } else {
    RETURN_IF_ERROR(FindNetwork(settings, &options));
  }
  ASSIGN_OR_RETURN(
      options.devices_per_task,
      NumberOr(settings, "devices-per-task", /*otherwise=*/1, /*min=*/1,
               /*max=*/kMaxGroupSize / options.cluster.num_tasks()));
  ASSIGN_OR_RETURN(options.start_timeout,
                   FindStartTimeout(settings, options.start_timeout));
  ASSIGN_OR_RETURN(options.fast_detection, FindDetection(settings));
  return options;
}

bool IsStartedByMpirun(const Variables& variables) {
  return variables(kMpiSize).has_value();
}

absl::Status CheckNotStartedByHydra(const Variables& variables) {
  int size = 0;
  const bool is_of_several =
      variables(kHydraMark).has_value() &&
      absl::SimpleAtoi(variables(kHydraSize).value_or(""), &size) && size > 1;
  if (!is_of_several) return absl::OkStatus();
  return UsageError(absl::StrCat(
      kHydraMark, " is set and ", kHydraSize, " is ", size,
      ": an mpirun of MPICH's kind, such as Intel MPI's, has started this "
      "process among others, of which tutti hears nothing; wanted: the mpirun "
      "of the Open MPI that tutti was linked with, or --cluster"));
}

bool IsLoopback(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost") || host == "[::1]") return true;
  in_addr address;
  return absl::StartsWith(host, "127.") &&
         inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

}  // namespace tutti
