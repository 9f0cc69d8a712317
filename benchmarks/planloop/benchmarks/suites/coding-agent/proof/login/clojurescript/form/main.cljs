(ns main
  (:require ["http" :as http]
            ["stream/consumers" :as consumers]
            [clojure.string :as str]
            [promesa.core :as p]
            [sessions :refer [begin end owner]]
            [users :refer [authenticated]]))

(defn escaped [text]
  (str/escape text {\& "&amp;" \< "&lt;" \> "&gt;" \" "&quot;"}))

(defn page [& body]
  (str "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Log in</title></head><body><main>"
       (apply str body) "</main></body></html>"))

(defn form [refusal]
  (page "<h1>Please log in</h1>"
        (when refusal (str "<p role=\"alert\">" refusal "</p>"))
        "<form method=\"post\" action=\"/login\">"
        "<p><label for=\"u\">User name</label> <input id=\"u\" name=\"user\" autocomplete=\"username\"></p>"
        "<p><label for=\"p\">Password</label> <input id=\"p\" name=\"password\" type=\"password\"></p>"
        "<p><input type=\"submit\" value=\"Log in\"></p></form>"))

(defn home [name]
  (page "<h1>Welcome, " (escaped name) "</h1>"
        "<form method=\"post\" action=\"/logout\"><input type=\"submit\" value=\"Log out\"></form>"))

(defn token [request]
  (or (second (re-find #"(?:^|; )session=([0-9a-f]+)" (or (.. request -headers -cookie) ""))) ""))

(defn html! [response status text]
  (-> response
      (.writeHead status #js {"content-type" "text/html; charset=utf-8" "cache-control" "no-store"})
      (.end text)))

(defn redirect! [response cookie]
  (-> response
      (.writeHead 303 #js {"location" "/" "set-cookie" (str "session=" cookie "; HttpOnly; Path=/")})
      (.end)))

(defn log-in! [request response]
  (p/let [body (consumers/text request)
          given (js/URLSearchParams. body)
          user (authenticated (.get given "user") (.get given "password"))]
    (if user
      (redirect! response (begin user))
      (html! response 401 (form "Wrong user name or password.")))))

(defn handle [request response]
  (case [(.-method request) (.-url request)]
    ["GET" "/"] (html! response 200 (if-let [name (owner (token request))] (home name) (form nil)))
    ["POST" "/login"] (log-in! request response)
    ["POST" "/logout"] (do (end (token request)) (redirect! response ""))
    (html! response 404 (page "<h1>Not found</h1>"))))

(.listen (http/createServer handle) (js/Number js/process.env.PORT))
