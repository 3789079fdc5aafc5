#ifndef TUTTI_TOOLS_COMMANDS_CERTS_COMMAND_H_
#define TUTTI_TOOLS_COMMANDS_CERTS_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/base/console.h"
#include "tools/cluster/command.h"

namespace tutti {

// `tutti certs`: makes certificates to try out TLS.
struct CertsOptions {
  int tasks = 1;
  std::string out;                 // A new or empty directory.
  std::vector<std::string> hosts;  // Names and addresses of all tasks.
  int days = 365;
};

// Makes ca.pem and ca.key, and for each task I task-I.pem and task-I.key. After
// an error, or a signal that ends the process, none of these files exists.
// Errors: as Command::run; those of OutputFiles.
absl::Status MakeCerts(const CertsOptions& options, const Console& console);

Command AddCertsCommand(CLI::App* app);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_CERTS_COMMAND_H_
