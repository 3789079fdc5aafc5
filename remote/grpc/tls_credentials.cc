#include "remote/grpc/tls_credentials.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpc/grpc_security_constants.h"
#include "remote/grpc/openssl_at_exit.h"

// gRPC can demand a version of TLS, but its public headers do not say how. This
// is what its library exports; null where it does not.
class grpc_ssl_server_credentials {
 public:
  __attribute__((weak)) void set_min_tls_version(grpc_tls_version version);
};

namespace tutti {
namespace {

struct PemFiles {
  std::string certificate;
  std::string key;
  std::string ca;
};

absl::StatusOr<std::string> Read(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a directory; wanted a file in PEM format"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  if (file.good() && !text.empty()) return text;
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

absl::StatusOr<PemFiles> Read(const TlsOptions& tls) {
  if (tls.certificate.empty() || tls.key.empty() || tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "TLS needs three files: certificate, key and CA");
  }
  auto certificate = Read(tls.certificate);
  if (!certificate.ok()) return certificate.status();
  auto key = Read(tls.key);
  if (!key.ok()) return key.status();
  auto ca = Read(tls.ca);
  if (!ca.ok()) return ca.status();
  return PemFiles{.certificate = *std::move(certificate),
                  .key = *std::move(key),
                  .ca = *std::move(ca)};
}

// gRPC's own class for this does not let the version of TLS be set.
class TlsServerCredentials final : public grpc::ServerCredentials {
 public:
  explicit TlsServerCredentials(const PemFiles& files) : credentials_(nullptr) {
    grpc_ssl_pem_key_cert_pair pair = {.private_key = files.key.c_str(),
                                       .cert_chain = files.certificate.c_str()};
    credentials_ = grpc_ssl_server_credentials_create_ex(
        files.ca.c_str(), &pair, 1,
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, nullptr);
    if (credentials_ == nullptr) return;
    if (&grpc_ssl_server_credentials::set_min_tls_version != nullptr) {
      reinterpret_cast<grpc_ssl_server_credentials*>(credentials_)
          ->set_min_tls_version(grpc_tls_version::TLS1_3);
    }
  }
  ~TlsServerCredentials() override {
    if (credentials_ != nullptr) grpc_server_credentials_release(credentials_);
  }
  TlsServerCredentials(const TlsServerCredentials&) = delete;
  TlsServerCredentials& operator=(const TlsServerCredentials&) = delete;

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*none*/) override {}

  // Whether a server can use them: gRPC says so only of one with a port of its
  // own. This one accepts nothing.
  bool Work() {
    grpc_completion_queue* const queue =
        grpc_completion_queue_create_for_pluck(nullptr);
    grpc_server* const server = grpc_server_create(nullptr, nullptr);
    grpc_server_register_completion_queue(server, queue, nullptr);
    const bool works = AddPortToServer("127.0.0.1:0", server) > 0;
    grpc_server_shutdown_and_notify(server, queue, nullptr);
    grpc_completion_queue_pluck(queue, nullptr,
                                gpr_inf_future(GPR_CLOCK_MONOTONIC), nullptr);
    grpc_server_destroy(server);
    grpc_completion_queue_shutdown(queue);
    grpc_completion_queue_destroy(queue);
    return works;
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    if (credentials_ == nullptr) return 0;
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_;
};

}  // namespace

absl::StatusOr<TransportCredentials> MakeCredentials(const TlsOptions& tls) {
  if (!tls.enabled()) {
    return TransportCredentials{.client = grpc::InsecureChannelCredentials(),
                                .server = grpc::InsecureServerCredentials()};
  }
  const auto files = Read(tls);
  if (!files.ok()) return files.status();
  KeepOpenSslAtExit();
  auto server = std::make_shared<TlsServerCredentials>(*files);
  if (!server->Work()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate ", tls.certificate, ", its key ", tls.key,
                     " and the CA ", tls.ca,
                     " do not fit each other, or one of them is none"));
  }
  return TransportCredentials{
      .client = grpc::SslCredentials({.pem_root_certs = files->ca,
                                      .pem_private_key = files->key,
                                      .pem_cert_chain = files->certificate}),
      .server = std::move(server)};
}

}  // namespace tutti
