#ifndef TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_
#define TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_

#include <map>
#include <string>

namespace tutti {

// Raw cluster settings of one source (command line or file): values by option
// name, such as "start-timeout".
using ClusterWords = std::map<std::string, std::string>;

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_CLUSTER_WORDS_H_
