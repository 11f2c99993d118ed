# What an installation has beside the two programs, in three components: programs, library, development.
set(manual_page "${PROJECT_BINARY_DIR}/man/agent-relay.1")
add_custom_command(
  OUTPUT "${manual_page}"
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:agent-relay>
          -DTEMPLATE=${PROJECT_SOURCE_DIR}/docs/man/agent-relay.1.in -DPAGE=${manual_page} -P
          ${PROJECT_SOURCE_DIR}/cmake/Manual.cmake
  DEPENDS agent-relay docs/man/agent-relay.1.in cmake/Manual.cmake
  VERBATIM)
add_custom_target(relay_manual ALL DEPENDS "${manual_page}")

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME programs)
install(FILES "${manual_page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES docs/man/agent-relay-format.5 DESTINATION "${CMAKE_INSTALL_MANDIR}/man5")
install(FILES docs/man/agent-relay-protocol.7 DESTINATION "${CMAKE_INSTALL_MANDIR}/man7")
install(FILES docs/man/agent-relayd.8 DESTINATION "${CMAKE_INSTALL_MANDIR}/man8")

install(
  FILES completions/agent-relay.bash
  DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
  RENAME agent-relay)
install(FILES completions/agent-relay.fish DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

install(FILES systemd/agent-relayd.socket DESTINATION lib/systemd/user)
install(FILES systemd/agent-relayd@.socket DESTINATION lib/systemd/system)
install(FILES systemd/strict.conf systemd/no-userns.conf DESTINATION "${CMAKE_INSTALL_DATADIR}/agent-relay/systemd")
# What depends on the prefix, which is known only then: --prefix and DESTDIR may still differ.
install(
  CODE "set(RELAY_SOURCE \"${PROJECT_SOURCE_DIR}\")
set(RELAY_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
set(RELAY_DATADIR \"${CMAKE_INSTALL_DATADIR}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/InstallByPrefix.cmake\")"
  COMPONENT programs)

install(
  DIRECTORY docs/schema
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING
  PATTERN "*.json")
install(FILES docs/format.md docs/protocol.md docs/service.md docs/config.toml README.md LICENSE
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The C++ library, for find_package(agent_relay) and pkg-config agent_relay.
set(package_directory "${CMAKE_INSTALL_LIBDIR}/cmake/agent_relay")
install(
  TARGETS agent_relay
  EXPORT agent_relay
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          COMPONENT library
          NAMELINK_COMPONENT development)
install(FILES delivery/agent_relay.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(
  EXPORT agent_relay
  NAMESPACE agent_relay::
  FILE agent_relay-config.cmake
  DESTINATION "${package_directory}"
  COMPONENT development)
include(CMakePackageConfigHelpers)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/agent_relay-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/agent_relay-config-version.cmake" DESTINATION "${package_directory}"
        COMPONENT development)
# From the file's own place back to the prefix, so that it may be moved.
file(RELATIVE_PATH RELAY_PREFIX_FROM_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/agent_relay.pc.in agent_relay.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/agent_relay.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT development)
install(FILES clients/example.cpp DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libagent-relay-dev/examples"
        COMPONENT development)
