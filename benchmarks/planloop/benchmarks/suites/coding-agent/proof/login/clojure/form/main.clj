(ns main
  (:require [clojure.string :as str]
            [sessions :refer [begin end owner]]
            [users :refer [authenticated]])
  (:import (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
           (java.net InetSocketAddress URLDecoder)
           (java.util.concurrent Executors)))

(defn escaped [text]
  (str/escape text {\& "&amp;" \< "&lt;" \> "&gt;" \" "&quot;"}))

(defn page [& body]
  (str "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Log in</title></head><body><main>"
       (apply str body) "</main></body></html>"))

(defn form [refusal]
  (page "<h1>Please log in</h1>"
        (when refusal (str "<p role=\"alert\">" refusal "</p>"))
        "<form method=\"post\" action=\"/login\"><table>"
        "<tr><th><label for=\"u\">User name</label><td><input id=\"u\" name=\"user\" autocomplete=\"username\"></tr>"
        "<tr><th><label for=\"p\">Password</label><td><input id=\"p\" name=\"password\" type=\"password\"></tr>"
        "</table><button>Log in</button></form>"))

(defn home [name]
  (page "<h1>Welcome, " (escaped name) "</h1>"
        "<form method=\"post\" action=\"/logout\"><button>Log out</button></form>"))

(defn form-params [body]
  (into {} (for [pair (str/split body #"&") :let [[k v] (str/split pair #"=" 2)] :when v]
             [(URLDecoder/decode k "UTF-8") (URLDecoder/decode v "UTF-8")])))

(defn token [{:keys [cookie]}]
  (or (second (re-find #"(?:^|; ?)session=([0-9a-f-]+)" cookie)) ""))

(defn html [status text]
  {:status status :headers {"Content-Type" "text/html; charset=utf-8" "Cache-Control" "no-store"} :body text})

(defn redirect [cookie]
  {:status 303 :headers {"Location" "/" "Set-Cookie" (str "session=" cookie "; HttpOnly; Path=/")} :body ""})

(defn handle [{:keys [method uri body] :as request}]
  (case [method uri]
    ["GET" "/"] (html 200 (if-let [name (owner (token request))] (home name) (form nil)))
    ["POST" "/login"] (let [{:strs [user password]} (form-params body)
                            name (authenticated user password)]
                        (if name (redirect (begin name)) (html 401 (form "Wrong user name or password."))))
    ["POST" "/logout"] (do (end (token request)) (redirect ""))
    (html 404 (page "<h1>Not found</h1>"))))

(defn adapt [^HttpExchange exchange]
  (with-open [exchange exchange]
    (let [{:keys [status headers ^String body]}
          (handle {:method (.getRequestMethod exchange)
                   :uri (.getPath (.getRequestURI exchange))
                   :cookie (or (.getFirst (.getRequestHeaders exchange) "Cookie") "")
                   :body (slurp (.getRequestBody exchange))})
          bytes (.getBytes body "UTF-8")]
      (doseq [[k v] headers] (.set (.getResponseHeaders exchange) k v))
      (.sendResponseHeaders exchange status (if (seq bytes) (count bytes) -1))
      (.write (.getResponseBody exchange) bytes))))

(doto (HttpServer/create (InetSocketAddress. (parse-long (System/getenv "PORT"))) 0)
  (.createContext "/" (reify HttpHandler (handle [_ exchange] (adapt exchange))))
  (.setExecutor (Executors/newCachedThreadPool))
  (.start))
