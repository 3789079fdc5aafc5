#ifndef TUTTI_TOOLS_COMMANDS_SUPPORT_TABLE_H_
#define TUTTI_TOOLS_COMMANDS_SUPPORT_TABLE_H_

#include <string>
#include <vector>

#include "tools/base/json_value.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {

// Dtypes of each collective by place: a type of devices, and a transport among
// processes or none in one process.
struct SupportTable {
  struct Place {
    std::string device_type;
    std::string transport;  // Empty: in one process.
  };
  struct Row {
    CollectiveType type = CollectiveType::kAllReduce;

    // Reductions with the same dtypes everywhere; empty unless Reduces(type).
    std::vector<std::string> reductions;
    std::vector<std::vector<DType>> dtypes;  // By place.
  };

  std::vector<Place> places;
  std::vector<Row> rows;
};

// Returns the table of all collectives and built-in reductions. Asks Validate()
// and WhyNot(), as a call does, about two members for each dtype and place. The
// devices are CPUs and those that an implementation names. Pure.
SupportTable SupportOf(const CollectiveRegistry& registry,
                       const std::vector<std::string>& transports);

// Text for people: "all", "all but bool", "integers".
std::string FormatSupport(const SupportTable& table);

// [{collective, reductions, places: [{device_type, transport, dtypes}]}].
Json SupportAsJson(const SupportTable& table);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_SUPPORT_TABLE_H_
