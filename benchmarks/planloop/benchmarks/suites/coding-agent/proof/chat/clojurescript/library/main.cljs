(ns main
  (:require ["fs" :as fs]
            ["http" :as http]
            ["ws" :refer [WebSocketServer]]
            [room :refer [join leave say]]))

(def files
  {"/" ["index.html" "text/html; charset=utf-8"]
   "/chat.js" ["chat.js" "text/javascript; charset=utf-8"]})

(def server
  (http/createServer
    (fn [request response]
      (if-let [[file type] (files (.-url request))]
        (-> response
            (.writeHead 200 #js {"content-type" type})
            (.end (fs/readFileSync (str "public/" file))))
        (-> response (.writeHead 404) (.end))))))

(.on (WebSocketServer. #js {:server server :path "/ws"})
     "connection"
     (fn [socket]
       (let [client #(.send socket %)]
         (join client)
         (.on socket "message" #(say client (.toString %)))
         (.on socket "close" #(leave client))
         (.on socket "error" #(.terminate socket)))))

(.listen server (js/Number js/process.env.PORT))
