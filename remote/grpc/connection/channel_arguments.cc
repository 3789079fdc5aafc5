#include "remote/grpc/connection/channel_arguments.h"

#include <limits>

#include "absl/time/time.h"
#include "grpc/grpc.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

// Larger than any bound that makes sense; settings are ints.
constexpr size_t kMaxSetting = size_t{1} << 30;

int AsSetting(size_t value) {
  return static_cast<int>(value < kMaxSetting ? value : kMaxSetting);
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

ChannelSettings ConnectionSettings() {
  return {
      {GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 8 << 20},
      {GRPC_ARG_HTTP2_MAX_FRAME_SIZE, (4 << 20)},
      {GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 8 << 20},
      {GRPC_ARG_HTTP2_BDP_PROBE, 0},
      {GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20},
      {GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20},
      // Bound on the time for which a peer that is gone, or does not read,
      // holds anything: the sum of these. A peer that stalls for less than the
      // second stays connected.
      {GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(DefaultTime("ping"))},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(DefaultTime("ping answer"))},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
  };
}

ChannelSettings ClientSettings(size_t max_message_bytes) {
  ChannelSettings settings = ConnectionSettings();
  const ChannelSettings own = {
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, AsSetting(max_message_bytes)},
      {GRPC_ARG_ENABLE_HTTP_PROXY, 0},
      {GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1},
      {GRPC_ARG_ENABLE_RETRIES, 0},
      {GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1},
      {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
       Milliseconds(DefaultTime("connect again"))},
      // Time limit of one attempt to connect, in spite of its name. A TLS
      // handshake is slow with a task that has no processor now. Heartbeats
      // find the tasks that are silent for too long.
      {GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(DefaultTime("connect"))},
      {GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
       Milliseconds(DefaultTime("connect late"))},
      {GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS,
       Milliseconds(DefaultTime("resolve again"))},
  };
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

ChannelSettings ServerSettings(size_t max_message_bytes) {
  ChannelSettings settings = ConnectionSettings();
  const ChannelSettings own = {
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, AsSetting(max_message_bytes)},
      // No bound here: calls past the bound of a peer are refused. Delayed
      // calls would delay heartbeats, and calls that others wait for.
      {GRPC_ARG_MAX_CONCURRENT_STREAMS, std::numeric_limits<int>::max()},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
       Milliseconds(DefaultTime("handshake"))},
      // Peers may ping as often as they like.
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
       Milliseconds(DefaultTime("least ping"))},
      {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
  };
  settings.insert(settings.end(), own.begin(), own.end());
  return settings;
}

}  // namespace tutti
