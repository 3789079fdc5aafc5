#include <string>

#include "absl/strings/str_cat.h"
#include "tutti/peer_access.h"

namespace tutti {

std::string ToString(const ExecKey& key) {
  return absl::StrCat("step ", key.step, ", group ", key.group, " (generation ",
                      key.generation, "), instance ", key.instance,
                      ", execution ", key.execution);
}

std::string ToString(const BufKey& key) {
  return absl::StrCat(ToString(key.exec), ", rank ", key.from, " to rank ",
                      key.to, ", tag ", key.tag);
}

}  // namespace tutti
